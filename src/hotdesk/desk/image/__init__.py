"""Images: built from recipes, imported, captured from desks; stored as layers, sealed, and kept in sterile copies."""
