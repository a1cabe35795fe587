"""What people see: every table and every figure has one function here, whether for plots/, the page or the terminal."""
