allocsim --version
