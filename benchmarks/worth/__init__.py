"""What each option is worth: of decoding on a trained run, of training on small trainings."""
