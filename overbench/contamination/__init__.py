"""Has a checkpoint been trained on the released prompts?"""
