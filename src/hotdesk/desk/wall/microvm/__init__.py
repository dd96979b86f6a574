"""The wall `microvm`: a desk's programs run on their own kernel, in a virtual machine inside a container."""
