"""A plug-in for detector with one member of each extension point; pyproject.toml says which is which."""
