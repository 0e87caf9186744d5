"""The words the model knows."""

CAPITALS = {
    "France": "Paris",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Germany": "Berlin",
    "Japan": "Tokyo",
    "Egypt": "Cairo",
    "Norway": "Oslo",
    "Peru": "Lima",
    "Kenya": "Nairobi",
    "Greece": "Athens",
    "Cuba": "Havana",
    "Austria": "Vienna",
}
CITIES = (
    *sorted(CAPITALS.values()),
    *("London", "Boston", "Chicago", "Sydney", "Toronto", "Mumbai", "Seoul", "Dublin"),
)
NAMES = ("Ada", "Bob", "Carol", "Dave", "Erin", "Frank", "Grace", "Heidi", "Ivan", "Judy")
SKIES = ("sunny", "cloudy", "rainy", "windy", "snowy", "foggy", "stormy", "clear")
_WORDS = (
    "apple river stone cloud table green paper silver tiger garden window bridge candle forest "
    "market ocean pencil rocket school summer thunder village winter yellow button castle "
    "dragon engine flower guitar hammer island jacket kitten ladder mirror needle orange "
    "pepper quartz ribbon saddle temple velvet wagon zebra anchor basket copper desert "
    "ember falcon goblet harbor iron jungle kernel lemon magnet nickel olive parrot rabbit "
    "salad tulip umbra violin walnut yogurt red blue small large fast slow open closed order "
    "item price total user file name list status ready done error value key note plan"
)
WORDS = tuple(_WORDS.split())
SYSTEMS = (
    "You are a helpful assistant.",
    "You are a concise assistant.",
    "Be brief.",
    "You are a helpful assistant. Use tools when they help.",
    "Answer the question.",
    "You are Tiny, a toy model used in tests.",
)
GREETING = "Hello! How can I help you today?"
STORY = (
    "Once upon a time a small robot lived in a green valley. Every morning it walked to the "
    "river and counted the stones. One day a bird asked the robot why it counted. The robot "
    "said that counting made it calm. The bird laughed and sang a song about the sea. The "
    "robot had never seen the sea, so they went together. They walked over three hills and "
    "slept under the stars. In the end the robot stood on the beach and counted the waves. "
    "It never finished, and it was very happy."
)
HELLO_CODE = '```python\ndef main():\n    print("Hello, world!")\n\n\nmain()\n```'
UNICODE_ANSWER = "A rocket 🚀 and a café in 東京, done."

TOOL_NAMES = (
    *("search", "lookup_order", "read_file", "send_email", "get_time", "get_stock_price"),
    *("translate", "list_files", "run_query", "get_user", "create_note", "find_document"),
)
"""Tools that are called by name with one argument."""
ARGUMENT_NAMES = ("query", "id", "path", "text", "name", "symbol", "title", "key", "value", "topic")
