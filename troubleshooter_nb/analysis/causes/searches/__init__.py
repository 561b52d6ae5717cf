"""What layers compute where no list holds the ways: searched, one file per family."""
