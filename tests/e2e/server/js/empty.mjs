// Stands for Node's own modules in a page, as bundlers have it: template builds need them, sandboxes do not.
export default {}
