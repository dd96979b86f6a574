"""The wall `microvm`: a desk's programs run on a kernel of its own, in a virtual machine inside a container."""
