"""Sources of WebShop catalogues: generated products and official files."""
