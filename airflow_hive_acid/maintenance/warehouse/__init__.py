"""The warehouse's directories as services see them: are they there, what lies in them, whose jobs still write.

Also what DDL does to directories, recorded before it is done so that it can be undone or finished. Imports the rooms
below maintenance.
"""
