"""Where WebShop catalogues come from: generated products and official files."""
