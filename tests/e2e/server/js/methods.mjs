// Every public method of npm `e2b`: does what it says, and fails as it should. Prints what was called and what failed.
import assert from 'node:assert/strict'

import {
  E2B, FileNotFoundError, InvalidArgumentError, NotFoundError, Sandbox, SandboxNotFoundError, Secret, SecretPaginator,
  Template, TemplateBase, Volume, waitForFile, waitForPort, waitForProcess, waitForTimeout, waitForURL,
} from 'e2b'

import { rejects, report, watch } from './record.mjs'

const [apiKey, url] = process.argv.slice(2)
process.env.E2B_VOLUME_API_URL = url
const api = { apiKey, apiUrl: url }
const all = { ...api, sandboxUrl: url }
const wrong = { ...all, apiKey: `e2b_${'0'.repeat(40)}` }
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

watch(Object.getPrototypeOf(Sandbox), 'SandboxApi')
watch(Sandbox, 'Sandbox')
watch(Secret, 'Secret')
watch(SecretPaginator, 'SecretPaginator')
watch(Volume, 'Volume')
watch(TemplateBase, 'TemplateBase')

const sandbox = await Sandbox.create({ ...all, metadata: { of: 'js' }, envs: { A: 'b' }, timeoutMs: 120_000 })
const { files, commands, pty, git } = sandbox
watch(files.constructor, 'Filesystem')
watch(commands.constructor, 'Commands')
watch(pty.constructor, 'Pty')
watch(git.constructor, 'Git')
watch((await commands.run('true', { background: true })).constructor, 'CommandHandle')

async function usesFiles() {
  assert.equal((await files.write('notes/a.txt', 'text')).path, '/home/user/notes/a.txt')
  await files.writeFiles([{ path: 'notes/b.bin', data: new Uint8Array([0, 255]).buffer }, { path: 'notes/c', data: 'c' }])
  assert.equal(await files.read('notes/a.txt'), 'text')
  assert.deepEqual([...(await files.read('notes/b.bin', { format: 'bytes' }))], [0, 255])
  assert.equal(await (await files.read('notes/c', { format: 'blob' })).text(), 'c')
  let streamed = ''
  for await (const piece of await files.read('notes/a.txt', { format: 'stream' })) streamed += Buffer.from(piece)
  assert.equal(streamed, 'text')
  assert.deepEqual((await files.list('notes')).map((each) => each.name), ['a.txt', 'b.bin', 'c'])
  assert.equal((await files.getInfo('notes/a.txt')).size, 4)
  assert.equal((await files.rename('notes/a.txt', 'notes/d.txt')).path, '/home/user/notes/d.txt')
  assert.deepEqual([await files.makeDir('made'), await files.makeDir('made')], [true, false])
  const events = []
  const handle = await files.watchDir('made', (event) => events.push(event.type))
  watch(handle.constructor, 'WatchHandle')
  await files.write('made/new', 'x')
  for (let tries = 0; events.length < 3 && tries < 100; tries++) await sleep(50)
  assert.deepEqual(events, ['create', 'chmod', 'write'])
  await handle.stop()
  await files.remove('notes/d.txt')
  assert.equal(await files.exists('notes/d.txt'), false)
  assert((await rejects(() => files.read('nowhere'))) instanceof NotFoundError)
  await rejects(() => files.getInfo('nowhere'))
  await rejects(() => files.list('nowhere'))
  await rejects(() => files.rename('nowhere', 'elsewhere'))
  await rejects(() => files.watchDir('nowhere', () => {}))
  await rejects(() => files.makeDir('notes/c'))
  await rejects(() => files.write('made', 'x'))
  await rejects(() => files.writeFiles([{ path: 'made', data: 'x' }]))
}

async function usesCommands() {
  const done = await commands.run('echo out; echo err >&2; echo $A $C', { envs: { C: 'd' } })
  assert.deepEqual([done.stdout, done.stderr, done.exitCode], ['out\nb d\n', 'err\n', 0])
  assert.equal((await rejects(() => commands.run('exit 3'))).exitCode, 3)
  await rejects(() => commands.run('sleep 60', { timeoutMs: 1000 }))
  const fed = await commands.run('cat', { background: true, stdin: true })
  await commands.sendStdin(fed.pid, 'told')
  await fed.sendStdin('!')
  await commands.closeStdin(fed.pid)
  assert.equal((await fed.wait()).stdout, 'told!')
  const other = await commands.run('cat', { background: true, stdin: true })
  await other.closeStdin()
  await other.wait()
  const sleeping = await commands.run('echo begun; sleep 60', { background: true })
  assert((await commands.list()).some((each) => each.pid === sleeping.pid))
  const again = await commands.connect(sleeping.pid)
  await again.disconnect()
  assert.equal(await sleeping.kill(), true)
  await rejects(() => sleeping.wait())
  assert.equal(await commands.kill(999_999), false)
  await rejects(() => commands.connect(999_999))
  await rejects(() => commands.sendStdin(999_999, 'x'))
  await rejects(() => commands.closeStdin(999_999))
  await rejects(() => fed.sendStdin('x'))
  await rejects(() => other.closeStdin())
}

async function usesTerminals() {
  let seen = ''
  const handle = await pty.create({ cols: 80, rows: 24, onData: (data) => (seen += Buffer.from(data)) })
  await pty.resize(handle.pid, { cols: 120, rows: 40 })
  const follower = await pty.connect(handle.pid, { onData: () => {} })
  await pty.sendInput(handle.pid, new TextEncoder().encode('stty size; exit\n'))
  await handle.wait()
  await follower.disconnect()
  assert(seen.includes('40 120'), seen)
  assert.equal(await pty.kill(999_999), false)
  await rejects(() => pty.resize(999_999, { cols: 1, rows: 1 }))
  await rejects(() => pty.sendInput(999_999, new Uint8Array([1])))
  await rejects(() => pty.connect(999_999))
}

async function usesGit() {
  const repo = '/home/user/repo'
  await git.configureUser('A', 'a@example.test')
  await git.setConfig('core.pager', 'cat')
  assert.equal(await git.getConfig('core.pager'), 'cat')
  await git.init('/home/user/origin.git', { bare: true })
  await git.init(repo, { initialBranch: 'main' })
  await git.remoteAdd(repo, 'origin', '/home/user/origin.git')
  assert.equal(await git.remoteGet(repo, 'origin'), '/home/user/origin.git')
  await files.write(`${repo}/a`, '1')
  await git.add(repo)
  await git.commit(repo, 'first')
  await git.push(repo, { remote: 'origin', branch: 'main', setUpstream: true })
  await git.pull(repo, { remote: 'origin', branch: 'main' })
  await git.createBranch(repo, 'other')
  await git.checkoutBranch(repo, 'main')
  assert.deepEqual((await git.branches(repo)).branches.sort(), ['main', 'other'])
  await git.deleteBranch(repo, 'other')
  await files.write(`${repo}/a`, '2')
  assert.equal((await git.status(repo)).fileStatus.length, 1)
  await git.restore(repo, { paths: ['a'] })
  await git.reset(repo, { mode: 'hard' })
  await git.clone('/home/user/origin.git', { path: '/home/user/copy', branch: 'main' })
  await git.dangerouslyAuthenticate({ username: 'a', password: 'b', host: 'git.example.test' })
  const none = '/home/user/no-repository'
  for (const work of [
    () => git.clone('/nowhere'), () => git.remoteAdd(none, 'a', 'b'), () => git.status(none), () => git.branches(none),
    () => git.createBranch(none, 'a'), () => git.checkoutBranch(none, 'a'), () => git.deleteBranch(none, 'a'),
    () => git.add(none), () => git.commit(none, 'a'), () => git.reset(none), () => git.restore(none, { paths: ['a'] }),
    () => git.push(none), () => git.pull(none), () => git.init('/proc/a'), () => git.setConfig('', ''),
    () => git.dangerouslyAuthenticate({ username: '', password: '' }), () => git.configureUser('', ''),
    () => git.getConfig(''), () => git.remoteGet(none, ''),
  ]) await rejects(work)
}

async function usesTheSandboxItself() {
  const id = sandbox.sandboxId
  assert.equal((await sandbox.getInfo()).metadata.of, 'js')
  assert.equal((await Sandbox.getInfo(id, all)).sandboxId, id)
  assert.equal((await Sandbox.getFullInfo(id, all)).sandboxId, id)
  assert.equal(await sandbox.isRunning(), true)
  await sandbox.setTimeout(200_000)
  await Sandbox.setTimeout(id, 210_000, all)
  assert.equal(sandbox.getHost(3000).startsWith('3000-'), true)
  assert.equal(sandbox.getMcpUrl().endsWith('/mcp'), true)
  await rejects(() => sandbox.getMcpToken())
  await files.write('/etc/mcp-gateway/.token', 'given', { user: 'root' })
  assert.equal(await sandbox.getMcpToken(), 'given')
  await sandbox.updateNetwork({ allowOut: ['example.com'], denyOut: ['0.0.0.0/0'], dnsServers: ['1.1.1.1'] })
  await Sandbox.updateNetwork(id, { denyOut: ['0.0.0.0/0'] }, all)
  await rejects(() => sandbox.updateNetwork({ egressProxy: { address: '127.0.0.1:1080' } }), '400')
  await sandbox.getMetrics()
  await Sandbox.getMetrics(id, all)
  const upload = await sandbox.uploadUrl('signed.txt', { useSignatureExpiration: 60 })
  const form = new FormData()
  form.append('file', new Blob(['by address']))
  assert.equal((await fetch(upload, { method: 'POST', body: form })).status, 200)
  assert.equal(await (await fetch(await sandbox.downloadUrl('signed.txt'))).text(), 'by address')
  const pages = Sandbox.list({ ...all, query: { metadata: { of: 'js' } }, limit: 1 })
  watch(pages.constructor, 'SandboxPaginator')
  assert.equal((await pages.nextItems())[0].sandboxId, id)
  await rejects(() => Sandbox.list({ ...wrong }).nextItems())
  const snapshot = await sandbox.createSnapshot()
  const second = await Sandbox.createSnapshot(id, all)
  const listed = sandbox.listSnapshots()
  watch(listed.constructor, 'SnapshotPaginator')
  assert((await listed.nextItems()).length >= 2)
  await rejects(() => Sandbox.listSnapshots({ ...wrong }).nextItems())
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId, all), true)
  assert.equal(await Sandbox.deleteSnapshot(second.snapshotId, all), true)
  await rejects(() => Sandbox.deleteSnapshot('a', wrong))
  for (const fork of [...(await sandbox.fork()), ...(await Sandbox.fork(id, all))]) {
    const copy = fork.sandbox ?? fork
    assert.equal(await copy.files.read('signed.txt'), 'by address')
    assert.equal(await copy.kill(), true)
  }
  assert.equal(await sandbox.pause(), true)
  const other = await Sandbox.connect(id, all)
  await Sandbox.pause(id, all)
  await sandbox.connect()
  await sandbox.betaPause()
  await other.connect()
  await Sandbox.betaPause(id, all)
  await other.connect()
}

async function usesTheDead() {
  const id = sandbox.sandboxId
  const handle = await commands.run('sleep 60', { background: true })
  const watching = await files.watchDir('/home/user', () => {})
  assert.equal(await sandbox.kill(), true)
  assert.equal(await Sandbox.kill(id, all), false)
  assert.equal(await sandbox.isRunning(), false)
  await watching.stop()
  for (const work of [
    () => files.exists('a'), () => files.remove('a'), () => commands.list(), () => commands.kill(1), () => handle.kill(),
    () => pty.create({ cols: 1, rows: 1, onData: () => {} }), () => pty.kill(1), () => sandbox.getInfo(),
    () => sandbox.setTimeout(1000), () => sandbox.updateNetwork({}), () => sandbox.getMetrics(), () => sandbox.pause(),
    () => sandbox.betaPause(), () => sandbox.createSnapshot(), () => sandbox.fork(), () => sandbox.connect(),
    () => Sandbox.getInfo(id, all), () => Sandbox.getFullInfo(id, all), () => Sandbox.setTimeout(id, 1000, all),
    () => Sandbox.updateNetwork(id, {}, all), () => Sandbox.getMetrics(id, all), () => Sandbox.pause(id, all),
    () => Sandbox.betaPause(id, all), () => Sandbox.createSnapshot(id, all), () => Sandbox.fork(id, all),
    () => Sandbox.connect(id, all), () => Sandbox.create('no-such-template', all), () => Sandbox.kill(id, wrong),
  ]) await rejects(work)
  assert((await rejects(() => Sandbox.getInfo(id, all))) instanceof SandboxNotFoundError)
  await rejects(() => sandbox.uploadUrl('a', { useSignatureExpiration: -1, user: 'x'.repeat(1) }) && files.read('a'))
  await rejects(async () => sandbox.kill(wrong))
  const client = new E2B(all)
  assert.equal((await client.Sandbox.list().nextItems()).length >= 0, true)
}

async function usesVolumes() {
  const volume = await Volume.create(`js-${Date.now()}`, api)
  assert((await Volume.list(api)).some((each) => each.volumeId === volume.volumeId))
  assert.equal((await Volume.getInfo(volume.volumeId, api)).name, volume.name)
  const same = await Volume.connect(volume.volumeId, api)
  await same.writeFile('/a.txt', 'text')
  assert.equal(await volume.readFile('/a.txt'), 'text')
  await volume.makeDir('/d')
  assert.deepEqual((await volume.list('/')).map((each) => each.name), ['a.txt', 'd'])
  assert.equal((await volume.updateMetadata('/a.txt', { mode: 0o600 })).mode, 0o600)
  assert.equal((await volume.getInfo('/a.txt')).size, 4)
  assert.equal(await volume.exists('/a.txt'), true)
  await volume.remove('/a.txt')
  await rejects(() => volume.readFile('/none'))
  await rejects(() => volume.getInfo('/none'))
  await rejects(() => volume.list('/none'))
  await rejects(() => volume.remove('/none'))
  await rejects(() => volume.updateMetadata('/none', { mode: 0o600 }))
  await rejects(() => volume.writeFile('/d', 'x'))
  await rejects(() => volume.makeDir('/none/below'))
  assert.equal(await Volume.destroy(volume.volumeId, api), true)
  await rejects(() => volume.exists('/a.txt'))
  await rejects(() => Volume.getInfo(volume.volumeId, api))
  await rejects(() => Volume.connect(volume.volumeId, api))
  await rejects(() => Volume.create('a/b', api))
  await rejects(() => Volume.list({ ...api, apiKey: wrong.apiKey }))
  await rejects(() => Volume.destroy(volume.volumeId, { ...api, apiKey: wrong.apiKey }))
}

async function usesSecrets() {
  const name = `js-${Date.now()}`
  await Secret.create(name, 'a-long-enough-value', api)
  assert.equal((await Secret.getInfo(name, api)).name, name)
  assert.equal((await Secret.update(name, 'another-long-value', api)).version, 2)
  assert.equal(await Secret.exists(name, api), true)
  assert.equal(Secret.fill(name), `\${e2b.secrets.${name}}`)
  assert((await Secret.list(api).nextItems()).some((each) => each.name === name))
  const token = Secret.iamToken({ audience: 'erp.example', tokenType: 'JWT-SVID' })
  const known = await Sandbox.create({
    ...all, iam: { tokens: { erp: token } },
    network: {
      allowOut: ['api.example.com'], denyOut: ({ allTraffic }) => [allTraffic],
      rules: { 'api.example.com': [{ transform: ({ iam }) => ({ headers: { 'X-Token': iam.tokens.erp } }) }] },
    },
  })
  await known.kill()
  assert.equal(await Secret.destroy(name, api), true)
  assert.equal(await Secret.destroy(name, api), false)
  await rejects(() => Secret.getInfo(name, api))
  await rejects(() => Secret.update(name, 'another-long-value', api))
  await rejects(() => Secret.create('a/b', 'x', api))
  await rejects(() => Secret.exists(name, { ...api, apiKey: wrong.apiKey }))
  await rejects(() => Secret.destroy(name, { ...api, apiKey: wrong.apiKey }))
  await rejects(() => Secret.list({ ...api, apiKey: wrong.apiKey }).nextItems())
}

async function usesTemplates() {
  const name = `js-${Date.now()}`
  const template = () => Template().fromBaseImage().runCmd('true')
  const built = await Template.build(template(), name, api)
  const background = await Template.buildInBackground(template(), name, api)
  for (;;) {
    const { status } = await Template.getBuildStatus(background, api)
    if (status === 'ready') break
    assert.notEqual(status, 'error')
    await sleep(100)
  }
  assert.deepEqual([await Template.exists(name, api), await Template.aliasExists(name, api)], [true, true])
  await Template.assignTags(`${name}:default`, ['stable'], api)
  assert((await Template.getTags(built.templateId, api)).some((each) => each.tag === 'stable'))
  await Template.removeTags(name, ['stable'], api)
  assert((await Template.toJSON(template())).includes('"RUN"'))
  assert(Template.toDockerfile(Template().fromImage('debian').runCmd('true')).includes('RUN true'))
  const steps = Template().fromTemplate('base').skipCache().setEnvs({ A: 'b' }).setWorkdir('/tmp').setUser('user')
    .copyItems([]).makeDir('d').makeSymlink('/a', '/b').rename('/b', '/c').remove('/c').pipInstall('six')
    .npmInstall('left-pad').bunInstall('left-pad').aptInstall('jq').gitClone('https://example.test/a.git')
    .copy('nothing-here', '/x')
  assert(steps.setStartCmd('sleep 1', waitForTimeout(1)))
  assert(Template().fromBaseImage().setReadyCmd(waitForFile('/a')))
  for (const ready of [waitForPort(1), waitForProcess('a'), waitForURL('http://a')]) assert(ready.getCmd())
  for (const each of [
    Template().fromDebianImage(), Template().fromUbuntuImage(), Template().fromPythonImage(), Template().fromNodeImage(),
    Template().fromBunImage(), Template().fromAlpineImage(), Template().fromFedoraImage(), Template().fromArchImage(),
    Template().fromDockerfile('FROM debian\nRUN true'),
    Template().fromAWSRegistry('a.dkr.ecr.eu-west-1.amazonaws.com/b:c', { accessKeyId: 'a', secretAccessKey: 'b', region: 'c' }),
    Template().fromGCPRegistry('gcr.io/a/b:c', { serviceAccountJSON: { a: 'b' } }),
  ]) assert(each)
  await rejects(async () => Template().fromBaseImage().addMcpServer('exa'))
  assert(Template().fromTemplate('mcp-gateway').addMcpServer('exa'))
  assert(Template().fromTemplate('devcontainer').betaDevContainerPrebuild('/a').betaSetDevContainerStart('/a'))
  await rejects(async () => Template().fromBaseImage().betaDevContainerPrebuild('/a'))
  await rejects(async () => Template().fromBaseImage().betaSetDevContainerStart('/a'))
  await rejects(() => Template.build(Template().fromBaseImage().runCmd('exit 3'), `${name}-b`, api))
  await rejects(() => Template.buildInBackground(template(), 'a b', api))
  await rejects(() => Template.getBuildStatus({ templateId: 'none', buildId: built.buildId }, api))
  await rejects(() => Template.assignTags('none:default', ['a'], api))
  await rejects(() => Template.removeTags('none', ['a'], api))
  await rejects(() => Template.getTags('none', api))
  await rejects(() => Template.exists(name, { ...api, apiKey: wrong.apiKey }))
  await rejects(() => Template.aliasExists(name, { ...api, apiKey: wrong.apiKey }))
  await rejects(async () => Template.toDockerfile(Template().fromTemplate('base')))
}

for (const part of [
  usesFiles, usesCommands, usesTerminals, usesGit, usesTheSandboxItself, usesVolumes, usesSecrets, usesTemplates,
  usesTheDead,
]) {
  try {
    await part()
  } catch (error) {
    console.error(part.name, error)
    process.exit(1)
  }
}
assert(FileNotFoundError && InvalidArgumentError)
report()
process.exit(0)
