// For releases of Node that know no proxy: http, https and fetch go through the one the variables name.
'use strict'
const proxy = process.env.https_proxy || process.env.HTTPS_PROXY
if (proxy && !process.allowedNodeEnvironmentFlags.has('--use-env-proxy')) {
  const http = require('http')
  const https = require('https')
  const tls = require('tls')
  const { hostname, port } = new URL(proxy)
  const near = (process.env.no_proxy || '').split(',')
  const direct = { ...http.Agent.prototype }.createConnection
  const directTLS = { ...https.Agent.prototype }.createConnection

  // Whoever brings a socket, or stays on this computer, wants no proxy.
  const passes = (to) => to.socketPath || to.path?.startsWith?.('/') && !to.host || to.socket || isNear(to.host || 'localhost')
  const isNear = (host) => near.includes(host.replace(/^\[|\]$/g, '')) || /^127\./.test(host)

  const tunnel = (host, to, done) => {
    const where = `${host.includes(':') && host[0] !== '[' ? `[${host}]` : host}:${to}`
    const call = http.request({ host: hostname, port, method: 'CONNECT', path: where, headers: { host: where }, agent: own })
    call.once('connect', (answer, socket, head) => {
      if (answer.statusCode === 200) return done(null, socket)
      const said = `${answer.statusCode} ${answer.statusMessage} ${head}`.trim()
      socket.destroy()
      done(Object.assign(new Error(`the proxy refused ${where}: ${said}`), { code: 'EPROXYREFUSED' }))
    })
    call.once('error', done).end()
  }
  const own = new http.Agent({ keepAlive: false })

  http.Agent.prototype.createConnection = function (...told) {
    const [to, done] = told
    if (typeof to !== 'object' || typeof done !== 'function' || passes(to)) return direct.apply(this, told)
    tunnel(to.host, to.port || 80, done)
  }
  https.Agent.prototype.createConnection = function (...told) {
    const [to, done] = told
    if (typeof to !== 'object' || typeof done !== 'function' || passes(to)) return directTLS.apply(this, told)
    tunnel(to.host, to.port || 443, (failed, socket) =>
      failed ? done(failed) : done(null, directTLS.call(this, { ...to, socket })))
  }

  // fetch has agents of its own, which can be reached once its library is there.
  const SLOT = Symbol.for('undici.globalDispatcher.1')
  const connect = (to, done) => {
    const secure = to.protocol === 'https:'
    const servername = to.servername || to.hostname
    tunnel(to.hostname, to.port || (secure ? 443 : 80), (failed, socket) => {
      if (failed || !secure) return done(failed, socket)
      const inner = tls.connect({ socket, servername, ALPNProtocols: ['http/1.1'] })
      inner.once('secureConnect', () => done(null, inner.off('error', done))).once('error', done)
    })
  }
  const fetch = globalThis.fetch
  let far
  if (fetch) {
    globalThis.fetch = function (resource, options) {
      void globalThis.Response
      const usual = globalThis[SLOT]
      if (!far && usual?.constructor.name === 'Agent') far = new usual.constructor({ connect })
      let host
      try { host = new URL(resource?.url ?? resource).hostname } catch { /* fetch itself will say so */ }
      const ours = far && host && !isNear(host) && !options?.dispatcher && usual?.constructor.name === 'Agent'
      return ours ? fetch(resource, { ...options, dispatcher: far }) : fetch(resource, options)
    }
  }
}
