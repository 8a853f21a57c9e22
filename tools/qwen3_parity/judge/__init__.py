"""Recording against recording: which taps are compared, how far they are apart, what that is worth."""
