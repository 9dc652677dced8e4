"""What is to be solved: tasks, parameters, domains, drawings of solutions."""
