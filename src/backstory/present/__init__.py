"""How a history is shown to people: safe text, wording, trees and JSON shapes, for cli, chat and web."""
