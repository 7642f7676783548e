from .comparison import Comparison as Comparison
from .comparison import compare as compare
from .comparison import draw_tasks as draw_tasks
