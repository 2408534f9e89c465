"""CTranslate2: export, inference engine, and the engine in an isolated process."""
