"""The demo: real flights through the whole lifecycle platform."""
