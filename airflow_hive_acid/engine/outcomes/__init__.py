"""What statements give back and tell while they run: results, events, and what manifests say of written files.

Values and their text, which everything above hands on. Imports the rooms below the engine.
"""
