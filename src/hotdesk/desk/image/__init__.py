"""Images: built from recipes, imported, or captured from desks; stored as layers, with sterile copies of them."""
