"""Write a text as a C++ function: `python embed_msl.py FROM TO`."""

import sys
from pathlib import Path

text = Path(sys.argv[1]).read_bytes()
rows = "\n".join(
    "    " + ", ".join(str(byte) for byte in text[at : at + 24]) + "," for at in range(0, len(text), 24)
)
Path(sys.argv[2]).write_text(
    "#include <string>\n\nnamespace qwisp::metal::cuda {\nnamespace {\nconst unsigned char kText[] = {\n"
    f"{rows}\n}};\n}}  // namespace\n\nconst std::string &msl_text();\nconst std::string &msl_text() {{\n"
    "    static const auto *const text =\n"
    "        new std::string(reinterpret_cast<const char *>(kText), sizeof kText);\n"
    "    return *text;\n}\n\n}  // namespace qwisp::metal::cuda\n"
)
