// What a page does with npm `e2b` and `@e2b/code-interpreter`: bundled for a browser, run by Chromium.
import { Sandbox as Interpreter } from '@e2b/code-interpreter'
import { Sandbox } from 'e2b'

window.useSandbox = async (apiKey, url) => {
  const all = { apiKey, apiUrl: url, sandboxUrl: url, timeoutMs: 120_000 }
  const sandbox = await Sandbox.create(all)
  const shown = []
  const done = await sandbox.commands.run('echo out; sleep 0.2; echo $A', {
    envs: { A: 'b' }, onStdout: (text) => shown.push(text),
  })
  await sandbox.files.write('a.txt', 'written in a page')
  const text = await sandbox.files.read('a.txt')
  const names = (await sandbox.files.list('.')).map((each) => each.name).filter((each) => !each.startsWith('.'))
  const failure = await sandbox.files.read('nowhere').catch((error) => error.constructor.name)
  const listed = (await Sandbox.list(all).nextItems()).length
  await sandbox.kill()
  const running = await sandbox.isRunning()
  return { stdout: done.stdout, shown: shown.join(''), text, names, failure, listed, running }
}

window.runCode = async (apiKey, url) => {
  const sandbox = await Interpreter.create({ apiKey, apiUrl: url, sandboxUrl: url, timeoutMs: 120_000 })
  const done = await sandbox.runCode('6 * 7')
  await sandbox.kill()
  return done.text
}
