"""What tables, partitions and other objects are called: checked, compared and resolved under every spelling."""
