"""What the generated source calls while a kernel runs: memory, the scheduler, the race checker, exact arithmetic, reports."""
