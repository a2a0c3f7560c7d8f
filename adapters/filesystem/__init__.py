"""Objects as files of a folder."""
