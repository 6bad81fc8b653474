LICENSES: str
VERSIONS: dict[str, str]
