"""``python -m robot_llm.evaluation``."""

from robot_llm.evaluation.main import main

raise SystemExit(main())
