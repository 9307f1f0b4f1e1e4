"""`labeldp`: the commands for your own labels, one file each."""
