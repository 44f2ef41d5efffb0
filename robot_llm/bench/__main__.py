"""``python -m robot_llm.bench``."""

from robot_llm.bench.main import main

raise SystemExit(main())
