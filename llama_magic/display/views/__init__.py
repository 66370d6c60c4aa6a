"""What each result says, as nodes. The view of a class stands where the class stands.

The view of what `llama_magic/microscope/reading.py` defines is in `display/views/microscope/reading.py`,
registered there on the class itself (`@view.register(ReadThrough)`). It is imported when such an object is
first shown (`find.nodes`), so that showing a table does not bring llama.cpp in, and a new view is one new
file. What stands above this package (`magics`), and a user's own class, register in their own file.
"""
