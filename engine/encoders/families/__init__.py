"""One file a model family of our own: what is known of it before anything heavy is imported.

Such a module has `FAMILIES`, one `engine.encoders.family.Family` or several; the registry finds it.
"""
