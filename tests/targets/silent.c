/* Allocates nothing, nor does anything on its way here. */
int main(void) { return 3; }
