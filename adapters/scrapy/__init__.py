"""Scrapy in front of the dedup service."""
