"""Adapters made of other adapters, for the engines that need no cloud."""
