"""The text of a script: its pieces and places, what may be said in it, what is hidden when it is shown.

Imports the errors alone.
"""
