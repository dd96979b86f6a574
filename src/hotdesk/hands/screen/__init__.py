"""A desk's screen: the tools, the reader that draws it, and people who watch or take over."""
