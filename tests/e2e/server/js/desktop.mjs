// Every public method of npm `@e2b/desktop`. Prints what was called and what failed.
import assert from 'node:assert/strict'

import { Sandbox } from '@e2b/desktop'

import { rejects, report, watch } from './record.mjs'

const [apiKey, url] = process.argv.slice(2)
const all = { apiKey, apiUrl: url, sandboxUrl: url }
watch(Sandbox, 'Sandbox')
await rejects(() => Sandbox.create('no-such-template', all))
const desktop = await Sandbox.create({ ...all, resolution: [1024, 768], timeoutMs: 180_000 })
watch(desktop.stream.constructor, 'VNCServer')

assert.deepEqual(await desktop.getScreenSize(), { width: 1024, height: 768 })
assert.equal(Buffer.from((await desktop.screenshot()).slice(1, 4)).toString(), 'PNG')
await desktop.moveMouse(300, 200)
assert.deepEqual(await desktop.getCursorPosition(), { x: 300, y: 200 })
await desktop.leftClick(310, 210)
await desktop.rightClick()
await desktop.press('esc')
await desktop.doubleClick()
await desktop.middleClick()
await desktop.scroll('down', 2)
await desktop.mousePress('left')
await desktop.mouseRelease('left')
await desktop.drag([100, 100], [200, 200])
await desktop.files.write('/home/user/note.txt', '')
await desktop.open('/home/user/note.txt')
let windows = []
for (let tries = 0; !windows.length && tries < 60; tries++) {
  await desktop.wait(500)
  windows = await desktop.getApplicationWindows('.').catch(() => [])
}
assert(windows.length)
await desktop.write('typed')
const current = await desktop.getCurrentWindowId()
assert(typeof (await desktop.getWindowTitle(current)) === 'string')
assert.equal(await desktop.waitAndVerify('echo ready', (result) => result.stdout.includes('ready')), true)

await desktop.launch('xfce4-terminal-emulator')
await desktop.stream.start({ requireAuth: true })
assert(desktop.stream.getAuthKey())
assert(desktop.stream.getUrl({ authKey: desktop.stream.getAuthKey() }).includes('vnc.html'))
await rejects(() => desktop.stream.start())
await desktop.stream.stop()

await desktop.kill()
for (const work of [
  () => desktop.screenshot(), () => desktop.moveMouse(1, 1), () => desktop.leftClick(), () => desktop.rightClick(),
  () => desktop.doubleClick(), () => desktop.middleClick(), () => desktop.scroll(), () => desktop.mousePress(),
  () => desktop.mouseRelease(), () => desktop.drag([1, 1], [2, 2]), () => desktop.getCursorPosition(),
  () => desktop.getScreenSize(), () => desktop.write('a'), () => desktop.press('a'), () => desktop.open('a'),
  () => desktop.getApplicationWindows('a'), () => desktop.getCurrentWindowId(), () => desktop.getWindowTitle('1'),
  () => desktop.launch('a'), () => desktop.waitAndVerify('true', () => true),
]) await rejects(work)
report()
process.exit(0)
