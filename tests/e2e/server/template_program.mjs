// What a program written for E2B's JavaScript SDK does with templates. Run by Node beside an installed `e2b`.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { BuildError, Sandbox, Template, waitForPort } from 'e2b'

const [apiKey, url] = process.argv.slice(2)
const api = { apiKey, apiUrl: url }
const all = { apiKey, apiUrl: url, sandboxUrl: url }
const folder = mkdtempSync(join(tmpdir(), 'templates-'))
const unlike = String(Date.now())

async function build(template, name, more = {}) {
  const lines = []
  await Template.build(template, name, { ...api, ...more, onBuildLogs: (entry) => lines.push(entry.message) })
  return lines
}

async function inSandbox(name, use) {
  const sandbox = await Sandbox.create(name, all)
  try {
    await use(sandbox)
  } finally {
    await sandbox.kill()
  }
}

async function buildsEveryStep() {
  mkdirSync(join(folder, 'tree'))
  writeFileSync(join(folder, 'tree/a.txt'), unlike)
  symlinkSync('a.txt', join(folder, 'tree/link'))
  const template = Template({ fileContextPath: folder })
    .fromBaseImage()
    .setEnvs({ COLOUR: 'green' })
    .runCmd(['echo $COLOUR > colour', 'whoami > who'])
    .runCmd('whoami > /opt/who', { user: 'root' })
    .copy('tree', '/data')
    .copyItems([{ src: 'tree/a.txt', dest: '/data/named.txt', mode: 0o600 }])
    .makeDir('/home/user/made')
    .makeSymlink('/data/a.txt', '/home/user/made/link')
    .rename('/home/user/who', '/home/user/whom')
    .remove('/home/user/colour')
    .setUser('guest')
    .setWorkdir('/srv/guest')
    .runCmd('touch mine')
  const lines = await build(template, 'js-steps')
  assert(lines.some((line) => line.includes('RUN echo $COLOUR')), lines.join('\n'))
  assert((await build(template, 'js-steps')).some((line) => line.includes('CACHED')))
  await inSandbox('js-steps', async (sandbox) => {
    const shown = await sandbox.commands.run(
      'whoami; pwd; cat /home/user/whom /opt/who /data/link; stat -c %a /data/named.txt; stat -c %U mine'
    )
    assert.equal(shown.stdout, `guest\n/srv/guest\nuser\nroot\n${unlike}600\nguest\n`)
  })
}

async function startsServers() {
  const template = Template().fromBaseImage().setStartCmd('python3 -m http.server 8000', waitForPort(8000))
  await build(template, 'js-starts')
  await inSandbox('js-starts', async (sandbox) => {
    const shown = await sandbox.commands.run("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8000/")
    assert.equal(shown.stdout, '200')
  })
}

async function tagsAndFollows() {
  const template = Template().fromDockerfile(`FROM e2bdev/base\nWORKDIR /work\nRUN echo ${unlike} > x\n`)
  const info = await Template.buildInBackground(template, 'js-tagged:v1', api)
  let status
  do {
    status = await Template.getBuildStatus(info, { ...api, logsOffset: 0 })
    await new Promise((resolve) => setTimeout(resolve, 100))
  } while (!['ready', 'error'].includes(status.status))
  assert.equal(status.status, 'ready', JSON.stringify(status))
  await Template.assignTags('js-tagged:v1', ['stable'], api)
  assert.deepEqual((await Template.getTags('js-tagged', api)).map((each) => each.tag).sort(), ['stable', 'v1'])
  await Template.removeTags('js-tagged', ['stable'], api)
  assert.equal(await Template.exists('js-tagged', api), true)
  assert.equal(await Template.aliasExists('js-never', api), false)
  await build(Template().fromTemplate('js-tagged:v1').runCmd('test "$(pwd)" = /work'), 'js-above')
}

async function namesFailures() {
  const failing = Template().fromBaseImage().runCmd('true').runCmd(`exit 7 # ${unlike}`)
  await assert.rejects(build(failing, 'js-fails'), (error) => error instanceof BuildError && /exit status 7/.test(error.message))
  await assert.rejects(build(Template().fromImage('ubuntu:22.04'), 'js-fails'), /hotdesk image import/)
  await assert.rejects(build(Template().fromBaseImage().runCmd('id', { user: 'root123' }), 'js-fails'), /invalid username/)
  await assert.rejects(Template.assignTags('js-never:v1', ['x'], api), /not found/)
}

for (const part of [buildsEveryStep, startsServers, tagsAndFollows, namesFailures]) {
  await part()
  console.log(part.name)
}
