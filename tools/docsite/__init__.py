"""The documentation as a site: docs/*.md as they are, and pages made from the program itself."""
