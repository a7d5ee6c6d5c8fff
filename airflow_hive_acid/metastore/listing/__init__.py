"""What people and watchers see: SHOW, pages, metrics, the commit log and outcomes. Reads only."""
