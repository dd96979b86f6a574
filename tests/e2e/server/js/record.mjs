// Notes which methods of a class are called, and which of those calls failed: on the class and on its instances.
export const called = new Set()
export const failed = new Set()

function wrap(owner, name, label, original) {
  owner[name] = function (...args) {
    called.add(label)
    try {
      const result = original.apply(this, args)
      if (result && typeof result.then === 'function') result.then(undefined, () => failed.add(label))
      return result
    } catch (error) {
      failed.add(label)
      throw error
    }
  }
}

export function watch(kind, label) {
  for (const [owner, mark] of [[kind, '.'], [kind.prototype, '#']]) {
    for (const name of Object.getOwnPropertyNames(owner)) {
      const found = Object.getOwnPropertyDescriptor(owner, name)
      if (['constructor', 'length', 'name', 'prototype'].includes(name)) continue
      if (typeof found.value === 'function' && found.writable) wrap(owner, name, `${label}${mark}${name}`, found.value)
    }
  }
}

export async function rejects(work, words = '') {
  try {
    await work()
  } catch (error) {
    if (!String(error.message ?? error).includes(words)) throw new Error(`${words} is not in ${error.stack}`)
    return error
  }
  throw new Error(`it did not fail: ${work}`)
}

export function report() {
  console.log(JSON.stringify({ called: [...called].sort(), failed: [...failed].sort() }))
}
