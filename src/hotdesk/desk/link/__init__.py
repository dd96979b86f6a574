"""A desk as its owner uses it: programs, files and watches over a framed link to the guest, the same for every wall."""
