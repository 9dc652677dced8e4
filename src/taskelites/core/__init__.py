"""The parts of algorithms: pure functions of arrays, without files, clock or printing."""
