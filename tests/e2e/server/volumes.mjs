// Volumes and secrets by E2B's JavaScript SDK, unchanged; prints one line for each thing that is as it should be.
import { Secret, Sandbox, Volume } from 'e2b'

const options = {
  apiKey: process.env.E2B_API_KEY,
  apiUrl: process.env.E2B_API_URL,
  sandboxUrl: process.env.E2B_SANDBOX_URL,
}

function check(what, found, expected) {
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    throw new Error(`${what}: ${JSON.stringify(found)} in place of ${JSON.stringify(expected)}`)
  }
  console.log(what)
}

async function failure(work) {
  try {
    await work()
  } catch (error) {
    return error
  }
}

const volume = await Volume.create('js-volume', options)
check('list', (await Volume.list(options)).map((each) => each.name), ['js-volume'])
await volume.writeFile('/a.txt', 'hällo')
check('text', await volume.readFile('/a.txt'), 'hällo')
check('bytes', (await volume.readFile('/a.txt', { format: 'bytes' })).length, 6)
await volume.writeFile('/big', new Blob([new Uint8Array(5_000_000)]))
check('blob', (await volume.getInfo('/big')).size, 5_000_000)
await volume.makeDir('/d/e', { force: true })
check('depth', (await volume.list('/', { depth: 2 })).map((each) => each.path), ['/a.txt', '/big', '/d', '/d/e'])
check('metadata', (await volume.updateMetadata('/a.txt', { mode: 0o600 })).mode, 0o600)

const sandbox = await Sandbox.create({ ...options, volumeMounts: { '/data': volume } })
check('mount', (await sandbox.commands.run('cat /data/a.txt; echo x > /data/d/f')).stdout, 'hällo')
check('written inside', await volume.readFile('/d/f'), 'x\n')
check('info', (await sandbox.getInfo()).volumeMounts, [{ name: 'js-volume', path: '/data' }])
check('in use', String((await failure(() => Volume.destroy(volume.volumeId, options))).message).slice(0, 3), '409')
await sandbox.kill()

check('missing', (await failure(() => volume.readFile('/none'))).constructor.name, 'VolumePathNotFoundError')
await volume.remove('/d')
check('removed', await volume.exists('/d'), false)
check('connect', (await Volume.connect(volume.volumeId, options)).name, 'js-volume')
check('destroyed', await Volume.destroy(volume.volumeId, options), true)

check('secret', (await Secret.create('js-key', 'a-long-enough-value', options)).name, 'js-key')
check('secret destroyed', await Secret.destroy('js-key', options), true)
