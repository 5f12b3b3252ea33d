"""How a history is shown to people: safe text, words, trees and JSON shapes; for cli, chat and web."""
