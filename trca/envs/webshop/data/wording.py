"""The vocabulary of generated products, from ``wording.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel

from trca.common.strict_yaml import packaged

Words = tuple[str, ...]


class Family(BaseModel, frozen=True):
    """Products that one search query returns together: one noun in several kinds.

    Attributes:
        category: Category.
        noun: The noun, in the singular.
        query: Search phrase, in the plural.
        kinds: Words before the noun.
        attributes: Possible attributes of the products, in addition to those of the category.
        groups: Names of the option groups.
        price: Lowest and highest price, in dollars.
        uses: Purposes of the products.
    """

    category: str
    noun: str
    query: str
    kinds: Words
    attributes: Words
    groups: Words
    price: tuple[float, float]
    uses: Words


class Wording(BaseModel, frozen=True):
    """Categories, options, families and templates.

    Attributes:
        departments: Category -> the first part of its products' category path.
        common_attributes: Category -> possible attributes of the products in all its families.
        options: Name of an option group -> its values, in page order.
        option_wordings: Name of an option group -> template of the phrase that requests a value.
        instructions: Templates of an instruction by a person.
        titles_with_one: Templates of a title with one attribute.
        titles_with_two: Templates of a title with two attributes.
        descriptions: Templates of a description without further attributes.
        telling_descriptions: Templates of a description with an attribute that the title omits.
        bullets: Feature lines.
        telling_bullet: Template of the feature line with an attribute that the title omits.
        brands: Brands.
        families: All families, four per category.
    """

    departments: Mapping[str, str]
    common_attributes: Mapping[str, Words]
    options: Mapping[str, Words]
    option_wordings: Mapping[str, str]
    instructions: Words
    titles_with_one: Words
    titles_with_two: Words
    descriptions: Words
    telling_descriptions: Words
    bullets: Words
    telling_bullet: str
    brands: Words
    families: tuple[Family, ...]


WORDS: Final = Wording.model_validate(packaged(__package__, "wording.yaml"))
