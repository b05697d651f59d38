"""Catalogues in memory, for tests."""

from trca.envs.webshop.data.catalogue import Catalogue
from trca.envs.webshop.data.generate import draw


def generated(count, seed=0):
    """The first generated products, and their instructions by ASIN."""
    drawn = [draw(number, seed) for number in range(count)]
    products = [product for product, _ in drawn]
    return products, {product.asin: wishes for product, wishes in drawn if wishes}


def catalogue_of(products, human=None, seed=0, compat="clean"):
    wishes = human or {}
    entries = ((each, tuple(wishes.get(each.asin, ()))) for each in products)
    return Catalogue.of(entries, seed, compat)
