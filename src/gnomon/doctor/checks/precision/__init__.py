"""What would break in fp16 and in bf16, from one fp32 pass."""
