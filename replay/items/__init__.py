"""Items: forms items from environment steps, packs and writes them."""
