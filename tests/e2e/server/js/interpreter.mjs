// Every public method of npm `@e2b/code-interpreter`. Prints what was called and what failed.
import assert from 'node:assert/strict'

import { Sandbox } from '@e2b/code-interpreter'

import { rejects, report, watch } from './record.mjs'

const [apiKey, url] = process.argv.slice(2)
watch(Sandbox, 'Sandbox')
const sandbox = await Sandbox.create({ apiKey, apiUrl: url, sandboxUrl: url, timeoutMs: 120_000 })

const shown = []
const done = await sandbox.runCode('print(6 * 7)\n"text"', { onStdout: (message) => shown.push(message) })
watch(done.constructor, 'Execution')
watch(done.results[0].constructor, 'Result')
assert.deepEqual([done.logs.stdout.join(''), done.text], ['42\n', 'text'])
assert(Array.isArray(done.results[0].formats()))
assert.equal(JSON.parse(JSON.stringify(done)).logs.stdout.join(''), '42\n')
assert(done.toJSON() && done.results[0].toJSON())
assert.equal(shown[0].line, '42\n')
assert.equal((await sandbox.runCode('1 / 0')).error.name, 'ZeroDivisionError')
assert.equal((await sandbox.runCode('21 * 2', { language: 'javascript' })).text, '42')

const context = await sandbox.createCodeContext({ language: 'python', cwd: '/tmp' })
await sandbox.runCode('kept = 1', { context })
assert.equal((await sandbox.runCode('kept', { context })).text, '1')
await sandbox.restartCodeContext(context)
assert.equal((await sandbox.runCode('kept', { context })).error.name, 'NameError')
assert((await sandbox.listCodeContexts()).some((each) => each.id === context.id))
await sandbox.removeCodeContext(context)
await rejects(() => sandbox.runCode('1', { context }))
await rejects(() => sandbox.restartCodeContext(context))
await rejects(() => sandbox.removeCodeContext(context))
await rejects(() => sandbox.createCodeContext({ language: 'cobol' }))
await sandbox.kill()
await rejects(() => sandbox.listCodeContexts())
report()
process.exit(0)
