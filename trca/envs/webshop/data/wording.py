"""The vocabulary of generated products: categories, kinds of products, options and templates.

The values of an option group, and the attributes of a family, are all dissimilar under the fuzzy
matching of the reward, so a wrong choice never counts as correct.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Family:
    """Products that one search query returns together: one noun in several kinds.

    Attributes:
        category: Category.
        noun: The noun, in the singular.
        query: Search phrase, in the plural.
        kinds: Words before the noun.
        attributes: Possible attributes of the products, in addition to those of the category.
        groups: Names of the option groups, from `OPTIONS`.
        price: Lowest and highest price, in dollars.
        uses: Purposes of the products.
    """

    category: str
    noun: str
    query: str
    kinds: tuple[str, ...]
    attributes: tuple[str, ...]
    groups: tuple[str, ...]
    price: tuple[float, float]
    uses: tuple[str, ...]


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


DEPARTMENTS: Final[Mapping[str, str]] = {
    "kitchen": "Kitchen & Dining",
    "fashion": "Clothing & Shoes",
    "home": "Home & Living",
    "beauty": "Beauty & Care",
    "grocery": "Grocery & Food",
    "electronics": "Electronics & Office",
}
"""Category -> the first part of its products' category path."""

COMMON_ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "kitchen": _list("dishwasher safe, heavy duty, easy clean"),
    "fashion": _list("machine wash, quick drying, long lasting"),
    "home": _list("easy install, fade resistant, eco friendly"),
    "beauty": _list("cruelty free, dermatologist tested, plant based"),
    "grocery": _list("gluten free, low sodium, certified organic"),
    "electronics": _list("energy saving, ultra light, plug play"),
}
"""Category -> possible attributes of the products in all its families."""

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "color": _list("red, blue, green, black, white, grey, pink, yellow, orange, purple"),
    "size": _list("small, medium, large, xxl"),
    "volume": _list("8 oz, 12 oz, 20 oz, 1 liter"),
    "length": _list("3 feet, 6 inch, 2 meter, 90 cm"),
    "scent": _list("lavender, rose, citrus, unscented, mint, sandalwood"),
    "flavor": _list("vanilla, cocoa, peach, cinnamon, lemon, ginger"),
    "pack": _list("single, twin pack, family box, trial set"),
    "style": _list("classic, modern, rustic, sporty"),
}
"""Name of an option group -> its values, in page order."""

OPTION_WORDINGS: Final[Mapping[str, str]] = {
    "color": "in {}",
    "size": "in size {}",
    "volume": "that holds {}",
    "length": "with {} length",
    "scent": "with {} scent",
    "flavor": "with {} flavor",
    "pack": "as {}",
    "style": "in {} style",
}
"""Name of an option group -> template of the phrase that requests a value."""

INSTRUCTIONS: Final = (
    "i need {a} {product} that is {attributes} {options}",
    "i am looking for {a} {attributes} {product} {options}",
    "find me {a} {product} {options}, it should be {attributes}",
    "i want to buy {a} {attributes} {product} {options}",
    "can you get me {a} {product} {options} which is {attributes}?",
    "please order {a} {product}, {attributes}, {options}",
)
"""Templates of an instruction by a person."""

TITLES_WITH_ONE: Final = ("{brand} {first} {product}", "{brand} {product}, {first}")
"""Templates of a title with one attribute."""

TITLES_WITH_TWO: Final = (
    "{brand} {first} {product}, {second}",
    "{brand} {first} and {second} {product}",
)
"""Templates of a title with two attributes."""

DESCRIPTIONS: Final = (
    "This {first} {noun} is a good choice for {use}.",
    "Made for {use}, this {first} {noun} lasts for years.",
    "A {first} {noun} for {use} and for every other day.",
)
"""Templates of a description without further attributes."""

TELLING_DESCRIPTIONS: Final = (
    "This {product} is {told}, a good choice for {use}.",
    "Made for {use}, this {product} is {told}.",
    "It is {told}: a {noun} for {use}.",
)
"""Templates of a description with an attribute that the title omits."""

BULLETS: Final = (
    "Comes with a two year guarantee.",
    "Packed in a recycled box.",
    "Checked by hand before it leaves us.",
    "Ships within three days.",
    "Send it back within a month if you do not like it.",
)
"""Feature lines."""

TELLING_BULLET: Final = "It is {told} too."
"""Template of the feature line with an attribute that the title omits."""

BRANDS: Final = _list(
    "Varnel, Ostrik, Mirdal, Kelbon, Tunvar, Brelik, Solmar, Dunrel, Norvik, Palbor, Jestin,"
    " Lorvad, Zebrun, Halmek, Rastol, Ilbren, Wendok, Corvil, Yartem, Fenrad"
)

FAMILIES: Final = (
    Family(
        "kitchen",
        "mug",
        "mugs",
        _list("stoneware, glass, enamel"),
        _list("lead free, double walled, chip resistant, stackable, hand painted"),
        ("color", "volume", "pack"),
        (12, 180),
        _list("slow mornings, camp fires, office desks"),
    ),
    Family(
        "kitchen",
        "pan",
        "frying pans",
        _list("ceramic, iron, copper"),
        _list("non stick, oven safe, induction ready, cool touch, scratch proof"),
        ("size", "color", "style"),
        (25, 400),
        _list("quick dinners, weekend brunch, small stoves"),
    ),
    Family(
        "kitchen",
        "kettle",
        "tea kettles",
        _list("steel, glass, travel"),
        _list("fast boiling, auto shutoff, drip free, whistling, cordless"),
        ("color", "volume"),
        (30, 420),
        _list("busy kitchens, dorm rooms, tea lovers"),
    ),
    Family(
        "kitchen",
        "bottle",
        "water bottles",
        _list("sport, infant, travel"),
        _list("bpa free, leak proof, vacuum insulated, wide mouth, sweat free"),
        ("color", "volume", "style"),
        (12, 200),
        _list("long hikes, the gym, school bags"),
    ),
    Family(
        "fashion",
        "jacket",
        "jackets",
        _list("rain, denim, fleece"),
        _list("water repellent, wind blocking, slim fit, fully lined, hooded"),
        ("size", "color", "style"),
        (40, 600),
        _list("rainy walks, cool evenings, autumn trips"),
    ),
    Family(
        "fashion",
        "shirt",
        "shirts",
        _list("linen, flannel, polo"),
        _list("wrinkle free, loose fit, button down, long sleeve, moisture wicking"),
        ("size", "color"),
        (20, 320),
        _list("summer days, the office, family dinners"),
    ),
    Family(
        "fashion",
        "shoe",
        "walking shoes",
        _list("canvas, running, hiking"),
        _list("rubber sole, arch support, slip on, anti skid, memory foam"),
        ("size", "color"),
        (35, 480),
        _list("city walks, muddy trails, daily training"),
    ),
    Family(
        "fashion",
        "hat",
        "hats",
        _list("sun, wool, bucket"),
        _list("wide brim, packable, sun blocking, chin strap, hand knit"),
        ("color", "size", "style"),
        (14, 220),
        _list("beach days, cold mornings, garden work"),
    ),
    Family(
        "home",
        "lamp",
        "lamps",
        _list("desk, floor, bedside"),
        _list("dimmable, touch control, glare free, adjustable arm, solid wood"),
        ("color", "style"),
        (25, 440),
        _list("late reading, small rooms, warm corners"),
    ),
    Family(
        "home",
        "rug",
        "area rugs",
        _list("jute, wool, shag"),
        _list("stain resistant, hand woven, pet friendly, non slip, extra thick"),
        ("color", "length", "style"),
        (35, 640),
        _list("living rooms, hallways, bare feet"),
    ),
    Family(
        "home",
        "curtain",
        "window curtains",
        _list("velvet, linen, sheer"),
        _list("room darkening, noise reducing, thermal insulated, rod pocket, machine washable"),
        ("color", "length"),
        (20, 340),
        _list("sunny bedrooms, loud streets, tall windows"),
    ),
    Family(
        "home",
        "candle",
        "scented candles",
        _list("soy, jar, pillar"),
        _list("smoke free, slow burning, hand poured, lead free wick, strong aroma"),
        ("scent", "pack", "size"),
        (10, 160),
        _list("quiet baths, winter evenings, small gifts"),
    ),
    Family(
        "beauty",
        "shampoo",
        "shampoos",
        _list("repair, shine, scalp"),
        _list("sulfate free, color safe, anti dandruff, tear free, deep cleansing"),
        ("scent", "volume", "pack"),
        (8, 140),
        _list("dry hair, daily washing, curly hair"),
    ),
    Family(
        "beauty",
        "lotion",
        "body lotions",
        _list("hand, body, face"),
        _list("fragrance free, fast absorbing, oil free, broad spectrum, skin firming"),
        ("scent", "volume"),
        (10, 170),
        _list("rough skin, winter air, after showers"),
    ),
    Family(
        "beauty",
        "soap",
        "bar soaps",
        _list("goat milk, charcoal, oatmeal"),
        _list("palm oil free, gently foaming, cold pressed, zero waste, exfoliating"),
        ("scent", "pack"),
        (8, 120),
        _list("guest rooms, sensitive skin, gym bags"),
    ),
    Family(
        "beauty",
        "toothbrush",
        "toothbrushes",
        _list("bamboo, electric, foldable"),
        _list("soft bristles, bpa safe, gum massaging, quick charging, tongue scraper"),
        ("color", "pack", "style"),
        (10, 210),
        _list("travel, sore gums, young teeth"),
    ),
    Family(
        "grocery",
        "tea",
        "teas",
        _list("green, black, herbal"),
        _list("caffeine free, hand picked, loose leaf, sugar free, fair trade"),
        ("flavor", "pack"),
        (10, 140),
        _list("calm evenings, iced drinks, cold days"),
    ),
    Family(
        "grocery",
        "granola",
        "granolas",
        _list("oat, nut, honey"),
        _list("high protein, dairy free, nothing artificial, slow baked, keto friendly"),
        ("flavor", "pack", "size"),
        (9, 130),
        _list("quick breakfasts, lunch boxes, yogurt bowls"),
    ),
    Family(
        "grocery",
        "cookie",
        "cookies",
        _list("butter, almond, wafer"),
        _list("egg free, individually wrapped, kosher, soft baked, trans fat free"),
        ("flavor", "pack"),
        (8, 120),
        _list("coffee breaks, parties, school snacks"),
    ),
    Family(
        "grocery",
        "coffee",
        "coffees",
        _list("instant, ground, espresso"),
        _list("dark roast, low acid, single origin, shade grown, freshly sealed"),
        ("flavor", "pack", "size"),
        (12, 180),
        _list("early starts, home bars, long meetings"),
    ),
    Family(
        "electronics",
        "headset",
        "headsets",
        _list("studio, sport, gaming"),
        _list("noise cancelling, hands free, water resistant, tangle free, stereo sound"),
        ("color", "style"),
        (30, 540),
        _list("loud trains, home studios, long calls"),
    ),
    Family(
        "electronics",
        "charger",
        "chargers",
        _list("wall, car, solar"),
        _list("fast charging, dual port, surge protected, non slip base, braided cord"),
        ("color", "length", "pack"),
        (14, 230),
        _list("road trips, night stands, shared desks"),
    ),
    Family(
        "electronics",
        "keyboard",
        "keyboards",
        _list("mechanical, compact, gaming"),
        _list("backlit keys, spill resistant, quiet typing, hot swappable, wireless"),
        ("color", "style"),
        (35, 480),
        _list("late work, small desks, fast typists"),
    ),
    Family(
        "electronics",
        "speaker",
        "speakers",
        _list("shelf, shower, party"),
        _list("deep bass, dust proof, voice control, shock proof, all day battery"),
        ("color", "size", "style"),
        (28, 500),
        _list("garden parties, kitchens, beach trips"),
    ),
)
"""All families, four per category."""
