from robot_llm.bench.engine.suite import add_options, run

__all__ = ['add_options', 'run']
